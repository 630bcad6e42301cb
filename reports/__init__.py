"""Reports: HTML pages, figures and tables of studies and campaigns, computed first and drawn second."""
