"""The first hour of somebody who has the wheel, a cluster and the page *Get started*: ``make first-hour``."""
