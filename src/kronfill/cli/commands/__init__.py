"""One module for each command: options in, a call of the library, sentences out."""
