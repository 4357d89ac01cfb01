"""Do the pages of several processes make one that a scraper takes?"""

from __future__ import annotations

from headrace.server.metrics.merged import merged_page
from headrace.testing.metrics import parse_samples

FIRST = '# HELP a What.\n# TYPE a gauge\na 1.0\n# HELP b_total How often.\n# TYPE b_total counter\nb_total{x="{y}",z="1 2"} 2\n'
SECOND = (
    '# HELP b_total How often.\n# TYPE b_total counter\nb_total{x="u"} 3\n# HELP c Only here.\n# TYPE c gauge\nc{} 4\n'
)


def test_a_family_stands_once_with_the_samples_of_all() -> None:
    """B-M08: Prometheus refuses a page in which a family comes twice; the label says whose a sample is."""
    page = merged_page({"5": FIRST, "6": SECOND})
    assert page == (
        "# HELP a What.\n# TYPE a gauge\n"
        'a{process="5"} 1.0\n'
        "# HELP b_total How often.\n# TYPE b_total counter\n"
        'b_total{process="5",x="{y}",z="1 2"} 2\n'
        'b_total{process="6",x="u"} 3\n'
        "# HELP c Only here.\n# TYPE c gauge\n"
        'c{process="6"} 4\n'
    )
    assert parse_samples(page)['a{process="5"}'] == 1.0
    assert merged_page({}) == ""
