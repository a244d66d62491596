"""Examine a checkpoint: is its output embedding degenerate, and what is to be done?

examination = examine("my-model", against="other-model", corpus="wikitext-2")
print(examination.diagnosis.sentence)
save_report(examination, "report")  # report.html and report.json
"""

from course_lab.examine.chance import random_spectrum
from course_lab.examine.diagnosis import Diagnosis, diagnose
from course_lab.examine.examination import examine
from course_lab.examine.findings import Finding
from course_lab.examine.graded import Graded, diseased, graded_series
from course_lab.examine.groups import Groups, frequency_groups
from course_lab.examine.matrices import read
from course_lab.examine.record import Examination
from course_lab.examine.report import save_report
from course_lab.examine.source import Source

__all__ = ["Diagnosis", "Examination", "Finding", "Graded", "Groups", "Source", "diagnose"]
__all__ += ["diseased", "examine", "frequency_groups", "graded_series", "random_spectrum", "read"]
__all__ += ["save_report"]
