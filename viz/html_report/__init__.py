"""A model, looked at in every way, as one HTML file that opens without a network."""

from wmtk.viz.html_report.about import About
from wmtk.viz.html_report.material import Material, look_closely
from wmtk.viz.html_report.page import report_page, require_report, write_report

__all__ = ["About", "Material", "look_closely", "report_page", "require_report", "write_report"]
