"""Fill in a table with what is known about its rows and columns, and look at one of the gaps."""

import kronfill as kf

bixi = kf.datasets.load_bixi()
trips = bixi.trips.iloc[:100, :50].copy()
station, day = trips.index[7], trips.columns[20]
trips.loc[station] = float("nan")  # as if this station were new

done = kf.complete(trips, rows=bixi.stations.iloc[:100], cols=bixi.days.iloc[:50])
print(done)
print()
print(f"{station} on {day:%d %B}: predicted {done.predict([(station, day)])[0]:.1f} departures,")
print(f"in truth there were {bixi.trips.loc[station, day]:.0f}.")
print()
print("Its busiest days, as predicted:")
print(done.best(3, rows=[station]).to_string(index=False))
