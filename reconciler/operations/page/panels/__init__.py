"""The panels of the page, one file and one template each; `panel` is their interface."""
