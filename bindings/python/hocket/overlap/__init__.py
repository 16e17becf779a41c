"""Plans which layers communicate together while others compute (docs/overlap.md): profiles, plans of batches, and the
exchange of gradients among ranks by such plans, made by Communicator.overlap().

    profile = hocket.overlap.Profile.load("profile.json")
    plan = hocket.overlap.plan(profile, backward=True)
    for batch in plan.in_time:                    # a range of the profile's layers
        reduce_together(batch)
"""
from hocket.overlap.exchange import Exchange, Stats
from hocket.overlap.planner import Plan, bucket_sizes, fit_cost, plan
from hocket.overlap.profiles import Layer, Profile, Pull

__all__ = ["Exchange", "Layer", "Plan", "Profile", "Pull", "Stats", "bucket_sizes", "fit_cost", "plan"]
