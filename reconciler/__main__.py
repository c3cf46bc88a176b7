"""`python -m reconciler` is `dra-reconciler`."""

from dra_reconciler import main

if __name__ == "__main__":
    main()
