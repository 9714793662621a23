"""What a streamed fit keeps on disk: sorted partitions, sums that were reached, locks.

Every file is there whole or not at all.
"""
