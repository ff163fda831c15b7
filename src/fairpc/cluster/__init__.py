"""The same fit on Dask: tables in partitions on many machines, and a plan of EM over them."""
