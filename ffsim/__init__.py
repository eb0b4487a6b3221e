"""ffsim: what a training run will score in a wall-clock contest, and how sure that is."""

from ffsim.errors import FfsimError

__all__ = ["FfsimError", "__version__"]
__version__ = "0.1.0"
