"""A minute with a team: an architect and three programmers review a repository, through the same operations as all."""

from engrambus.edges.demo.bill import Bill
from engrambus.edges.demo.fresh import make_fresh
from engrambus.edges.demo.play import AGENTS, GOAL, play
from engrambus.edges.demo.stage import Stage
from engrambus.edges.demo.survey import Survey, survey

__all__ = ["AGENTS", "GOAL", "Bill", "Stage", "Survey", "make_fresh", "play", "survey"]
