"""All groups of a plan in one table that can be searched, sorted and filtered in the browser.

In: a plan and what its runs did. Out: JSON of bounded size, which the page's script shows.
"""
