"""A minute with a team: an architect and three programmers review a repository, through the same operations as all."""

from stigmergy.edges.demo.bill import Bill
from stigmergy.edges.demo.fresh import make_fresh
from stigmergy.edges.demo.play import AGENTS, GOAL, play
from stigmergy.edges.demo.stage import Stage
from stigmergy.edges.demo.survey import Survey, survey

__all__ = ["AGENTS", "GOAL", "Bill", "Stage", "Survey", "make_fresh", "play", "survey"]
