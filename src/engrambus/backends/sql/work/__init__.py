"""The work store on a SQL database: its projection, its view and the walk of a claim, through named queries."""
