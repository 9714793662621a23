"""Run studies on real data and write the page of results: ``python -m studies [NAME ...]``."""

from __future__ import annotations

import argparse
import os
import warnings
from functools import partial
from pathlib import Path

from kronfill.errors import ConvergenceWarning
from studies import (
    active_choice,
    bixi,
    certificates,
    conformal_coverage,
    defaults,
    drug_response,
    likelihoods,
    made_up,
    page,
    peers,
    seattle,
    side_information,
    uneven_coverage,
)
from studies.common import RESULTS, load, save

KEPT_AS_THEY_COME = ("defaults", "peers", "made_up", "side_information")
"""Long ones: what is there is kept at once, and a run that was broken off goes on."""
STUDIES = {
    "defaults": defaults.run,
    "peers": peers.run,
    "made_up": made_up.run,
    "seattle": seattle.run,
    "drug_response": drug_response.run,
    "bixi": bixi.run,
    "likelihoods": likelihoods.run,
    "side_information": side_information.run,
    "conformal_drug": partial(conformal_coverage.run, "drug"),
    "conformal_bixi": partial(conformal_coverage.run, "bixi"),
    "conformal_seattle": partial(conformal_coverage.run, "seattle"),
    "certificates": certificates.run,
    "uneven_made_up": uneven_coverage.run,
    "uneven_new": uneven_coverage.run_new,
    "uneven_auto": uneven_coverage.run_auto,
    "uneven_real": uneven_coverage.run_real,
    "active_drug": partial(active_choice.run, "drug"),
    # Designed after a look at seeds 0 to 9 of the design for drug response, so others are taken.
    "active_bixi": partial(active_choice.run, "bixi", seeds=range(100, 120), start=50, batch=25),
}


def main():
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STUDIES)}")
    parser.add_argument("--quick", action="store_true", help="small versions, to try the code")
    parser.add_argument("--redraw", action="store_true", help="run nothing, write the page")
    parser.add_argument("--data", help="directory of the data; by default that of KRONFILL_DATA")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--page", type=Path, default=page.PAGE, help="page with the markers")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(STUDIES))
    if unknown:
        parser.error(f"There is no study {', '.join(unknown)}; there are {', '.join(STUDIES)}.")
    if options.data:
        os.environ["KRONFILL_DATA"] = options.data
    # Alternating methods that stop at their limit are as good as their error says.
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in () if options.redraw else options.names or STUDIES:
        print(f"{name} ...", flush=True)
        where = {"out": options.out} if name in KEPT_AS_THEY_COME else {}
        save(STUDIES[name](quick=options.quick, **where), name, options.out)
    page.write(options.page, options.out)
    if options.out == RESULTS:
        page.write(uneven_coverage.PAGE, found=uneven_coverage.tables())
        uneven_coverage.draw(load("uneven_made_up"), load("uneven_real"), uneven_coverage.PICTURE)
        uneven_coverage.draw_real(load("uneven_real"), uneven_coverage.REAL_PICTURE)
        page.write(defaults.PAGE, found=defaults.tables() | made_up.tables())
        linked = load("likelihoods")
        page.write(likelihoods.PAGE, found={"likelihoods": likelihoods.table(linked)})
        likelihoods.draw(linked, likelihoods.PICTURE)
        page.write(side_information.PAGE, found=side_information.tables())
    print("\n\n".join(page.tables(options.out).values()))


if __name__ == "__main__":
    main()
