"""ResourceSlices as columns of integer codes."""
