"""wmtk, the World Model ToolKit: collect data for world models, train them, look inside them."""

__version__ = "0.1.0"
