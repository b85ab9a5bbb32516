"""The evaluation of a model as one HTML file that opens without a network."""

from wmtk.viz.html_report.content import ReportContent, collect_content
from wmtk.viz.html_report.page import report_page, require_report, write_report
from wmtk.viz.html_report.report_info import ReportInfo

__all__ = [
    "ReportContent",
    "ReportInfo",
    "collect_content",
    "report_page",
    "require_report",
    "write_report",
]
