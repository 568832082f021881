"""Bad models: not annotated, annotated wrongly, changed since, or without a solution."""

from types import SimpleNamespace

import pyomo.environ as pyo

import pyomo_csg as csg
from models import newsvendor
from pyomo_csg.stages.annotation import FIRST_STAGE
from tests.reliability.bad import Bad, grid
from tests.reliability.scene import transformed

OTHER = newsvendor.build()


def annotated(s, **given):
    """Annotate the scene's model anew."""
    marks = {"first_stage_variables": "order", "uncertain_params": "demand"}
    csg.annotate(s.model, **{**marks, **given})


VARIABLES = {
    "None": (None, "first_stage_variables", "expected a component"),
    "a number": (3, "the number 3", "mutable=True"),
    "nothing": ([], "first_stage_variables", "name at least one Var"),
    "a misspelled name": ("oder", "'oder'", "did you mean order"),
    "no name at all": ("[!", "'[!'", "check the spelling"),
    "a Param": ("demand", "'demand' is a Param", "expected a Var"),
    "a Constraint": ("stock", "'stock' is a Constraint", "expected a Var"),
    "another model's": (OTHER.order, "another model", "of the model that you annotate"),
    "one good, one bad": (["order", "ordr"], "'ordr'", "did you mean order"),
    "a dict": ({"order": 1}.items(), "the number 1", "mutable=True"),
    "bytes": ([b"order"], "the number", "mutable=True"),
}
PARAMS = {
    "None": (None, "uncertain_params", "expected a component"),
    "nothing": ((), "uncertain_params", "name at least one Param"),
    "not mutable": ("tax", "'tax' is not mutable", "mutable=True"),
    "a Var": ("order", "'order' is a Var", "expected a Param"),
    "a misspelled name": ("demnd", "'demnd'", "did you mean demand"),
    "another model's": (OTHER.demand, "another model", "of the model that you"),
    "a value": (15.1, "the number 15.1", "mutable=True"),
}
# What is not a model, for every call that takes one.
MODELS = {
    "None": (lambda s: None, "NoneType", "ConcreteModel"),
    "text": (lambda s: "model.py", "str", "ConcreteModel"),
    "a component": (lambda s: s.model.order, "ScalarVar", "ConcreteModel"),
    "abstract": (lambda s: pyo.AbstractModel(), "AbstractModel", "create_instance"),
    "not annotated": (lambda s: pyo.ConcreteModel("bare"), "'bare'", "csg.annotate"),
}
TAKING_MODELS = {
    "csg.TwoStageModel": lambda s, of: csg.TwoStageModel(of(s)),
    "csg.Oracle": lambda s, of: csg.Oracle(of(s)),
    "csg.fit": lambda s, of: csg.fit(of(s), s.pairs, method="mmd"),
    "csg.load": lambda s, of: csg.load(s.folder / "policy.csg", of(s)),
    "csg.evaluate": lambda s, of: csg.evaluate(
        {"a": SimpleNamespace(decide=dict)}, s.cases, model=of(s)
    ),
    "csg.baselines.ExpectedValue": lambda s, of: csg.baselines.ExpectedValue(
        of(s), s.pairs
    ),
    "csg.ScenarioGenerator.fit": lambda s, of: csg.ScenarioGenerator(of(s)).fit(
        *s.pairs
    ),
    "csg.guarantees.cost_range": lambda s, of: csg.guarantees.cost_range(of(s)),
    "csg.extensive_form": lambda s, of: pyo.TransformationFactory(
        "csg.extensive_form"
    ).apply_to(of(s), scenarios=[[1.0]]),
}


def replaced(m):
    m.del_component("demand")
    m.demand = pyo.Param(initialize=3.0, mutable=True)


def integers(m):
    m.del_component("market")
    m.del_component("demand")
    m.demand = pyo.Param(initialize=3, mutable=True, within=pyo.Integers)
    m.market = pyo.Constraint(expr=m.sold <= m.demand)
    csg.annotate(m, first_stage_variables=m.order, uncertain_params=m.demand)


def disjunctive(m):
    from pyomo.gdp import Disjunction

    m.either = Disjunction(expr=[m.order <= 3, m.order >= 5])


def outside(m):
    m.link = pyo.Constraint(expr=m.sold <= OTHER.order)


def taken(m):
    m.del_component(FIRST_STAGE)
    m.add_component(FIRST_STAGE, pyo.Var())


# Annotated, and then changed: by a user who goes on modeling.
CHANGES = {
    "the Param replaced": (replaced, "'demand'", "annotate again"),
    "the Var deleted": (lambda m: m.del_component("order"), "'order'", "annotate"),
    "no objective": (lambda m: m.cost.deactivate(), "Objective", "activate the one"),
    "two objectives": (
        lambda m: m.add_component("more", pyo.Objective(expr=m.order)),
        "'more'",
        "deactivate all but one",
    ),
    "the Param unused": (
        lambda m: m.market.deactivate(),
        "'demand'",
        "leave it out of uncertain_params",
    ),
    "the Var unused": (
        lambda m: m.add_component("idle", pyo.Var()),
        "'idle'",
        "leave it out of the model",
    ),
    "a Param without a value": (
        lambda m: m.demand.clear(),
        "'demand' has no value",
        "initialize=",
    ),
    "whole numbers only": (integers, "'demand' has the discrete", "within=Reals"),
    "a Disjunction": (disjunctive, "'either'", "gdp.bigm"),
    "another model's Var": (outside, "'order'", "annotate the model that holds both"),
}
READING = {
    "csg.TwoStageModel": lambda s: csg.TwoStageModel(s.model),
    "csg.fit": lambda s: s.fit(),
    "csg.load": lambda s: csg.load(s.folder / "policy.csg", s.model),
    "csg.extensive_form": lambda s: transformed(s, "extensive_form", scenarios=[[1.0]]),
}
SOLVED = {
    "nonlinear": (
        lambda m: m.add_component("cap", pyo.Constraint(expr=m.sold**3 <= 5)),
        "'cap'",
        "linear",
    ),
    "not convex": (
        lambda m: m.cost.set_value(-(m.order**2) + m.sold),
        "'cost'",
        "convex",
    ),
    "a domain with gaps": (
        lambda m: setattr(m.order, "domain", pyo.Set(initialize=[1, 2.5])),
        "'order'",
        "interval",
    ),
}
UNSOLVABLE = {
    "infeasible": (
        lambda m: m.add_component("all", pyo.Constraint(expr=m.sold >= 90)),
        "infeasible",
        "error.write",
    ),
    "unbounded": (
        lambda m: m.order.setub(None) or m.stock.deactivate(),
        "unb",
        "write",
    ),
    "fixed out of its way": (lambda m: m.sold.fix(99.0), "infeasible", "error.write"),
    "bounds that cross": (lambda m: m.order.setlb(70.0), "infeasible", "error.write"),
}
SOLVING = {
    "Oracle.solve": lambda s: csg.Oracle(s.model).solve([[15.0]]),
    "Oracle.loss": lambda s: csg.Oracle(s.model).loss([[[15.0]]], [[15.0]]),
    "Policy.decide": lambda s: csg.load(s.folder / "policy.csg", s.model).decide(
        [0.0, 0.0]
    ),
    "ScenarioGenerator.predict": lambda s: (
        csg.ScenarioGenerator(s.model, 2, method="mmd")
        .fit(*s.pairs)
        .predict([0.0, 0.0])
    ),
    "Baseline.decide": lambda s: csg.baselines.SampleAverage(s.model, s.pairs).decide(
        [0.0, 0.0]
    ),
}


def changed(calls, changes):
    """Yield each call on each changed model."""
    for given, (change, thing, remedy) in changes.items():
        for call, run in calls.items():
            yield Bad(call, given, run, thing, remedy, lambda s, c=change: c(s.model))


CASES = [
    *grid(
        {"csg.annotate": lambda s, v: annotated(s, first_stage_variables=v)},
        VARIABLES,
        "first_stage_variables",
    ),
    *grid(
        {"csg.annotate": lambda s, p: annotated(s, uncertain_params=p)},
        PARAMS,
        "uncertain_params",
    ),
    *changed(
        {"csg.annotate": annotated},
        {"a name that is taken": (taken, FIRST_STAGE, "rename it")},
    ),
    *(
        bad
        for bad in grid(TAKING_MODELS, MODELS)
        if (bad.call, bad.given) != ("csg.evaluate", "None")  # the default
    ),
    *changed(READING, CHANGES),
    *changed({"csg.Oracle": lambda s: csg.Oracle(s.model)}, SOLVED),
    *changed(SOLVING, UNSOLVABLE),
    Bad(
        "Oracle.loss",
        "pessimistic with integers",
        lambda s: csg.Oracle(s.model).loss([[[1.0]]], [[1.0]], "pessimistic"),
        "integer variables",
        "relax them",
        lambda s: setattr(s.model.order, "domain", pyo.Integers),
    ),
    Bad(
        "Decision.load_into",
        "another model",
        lambda s: s.policy.decide([0.0, 0.0]).load_into(pyo.ConcreteModel("bare")),
        "'order'",
        "pass the model that the policy was fitted for",
    ),
    Bad(
        "Decision.load_into",
        "no model",
        lambda s: s.policy.decide([0.0, 0.0]).load_into("model.py"),
        "str",
        "ConcreteModel",
    ),
    Bad(
        "Decision.load_into",
        "fixed elsewhere",
        lambda s: s.policy.decide([0.0, 0.0]).load_into(s.model),
        "'order'",
        "unfix it",
        lambda s: s.model.order.fix(3.0),
    ),
]
