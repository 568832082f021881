"""Small annotated models, each with one thing that is easy to get wrong.

``ZOO`` maps a name to a function without arguments; ``scenarios(model)`` gives data that
suits any of them.
"""

from functools import wraps

import numpy as np
import pyomo.environ as pyo
from pyomo.gdp import Disjunct, Disjunction

import pyomo_csg as csg
from models import apl1p, cep1, farmer, mnv, newsvendor

ZOO = {
    "newsvendor": newsvendor.build,
    "cep1": cep1.build,
    "farmer": farmer.build,
    "apl1p": apl1p.build,
    "mnv": mnv.build,
}


def scenarios(model, count=3, seed=0):
    """Return scenarios around the values that the model's uncertain Params have."""
    two_stage = csg.TwoStageModel(model)
    nominal = np.array([p.value for p in two_stage.uncertain_params])
    factors = np.random.default_rng(seed).uniform(0.5, 1.0, (count, len(nominal)))
    return factors * nominal


def zoo(write):
    """Add a model to the zoo: ``write`` fills an empty one and returns what to annotate."""

    @wraps(write)
    def build():
        m = pyo.ConcreteModel(write.__name__)
        first_stage, uncertain = write(m)
        csg.annotate(m, first_stage_variables=first_stage, uncertain_params=uncertain)
        return m

    ZOO[write.__name__] = build
    return build


@zoo
def nested_blocks(m):
    """Recourse in indexed Blocks within a Block, tuple indices, an objective inside."""
    m.plant = pyo.Block()
    m.plant.size = pyo.Var([("a", 1), ("a", 2), ("b", 1)], bounds=(0, 10))

    @m.plant.Block([1, 2])
    def period(b, t):
        b.load = pyo.Param([("a", 1), ("b", 1)], mutable=True, initialize=4 + t)
        b.lost = pyo.Var([("a", 1), ("b", 1)], within=pyo.NonNegativeReals)
        size = b.model().plant.size

        @b.Constraint([("a", 1), ("b", 1)])
        def serve(b, kind, number):
            return b.lost[kind, number] + size[kind, number] >= b.load[kind, number]

    m.plant.limit = pyo.Constraint(expr=sum(m.plant.size.values()) <= 15)
    m.plant.spare = pyo.Constraint(expr=m.plant.size["a", 2] >= 1)
    lost = sum(v for t in (1, 2) for v in m.plant.period[t].lost.values())
    m.plant.cost = pyo.Objective(expr=sum(m.plant.size.values()) + 3 * lost)
    return m.plant.size, m.plant.period[:].load[:, :]


@zoo
def shared_component(m):
    """One Var, one Param and one Constraint with members on either side."""
    m.x = pyo.Var([1, 2], ["now", "later"], bounds=(0, 20))
    m.data = pyo.Param(
        ["price", 1, 2], mutable=True, initialize={"price": 2, 1: 6, 2: 8}
    )

    @m.Constraint([1, 2], ["now", "later"])
    def row(m, i, when):
        if when == "now":
            return m.x[i, "now"] <= 5
        return m.x[i, "now"] + m.x[i, "later"] >= m.data[i]

    m.cost = pyo.Objective(
        expr=sum(m.x[:, "now"]) + m.data["price"] * sum(m.x[:, "later"])
    )
    return m.x[:, "now"], [m.data[1], m.data[2]]


@zoo
def deactivated(m):
    """Deactivated constraints, objectives and Blocks, one with a variable in use."""
    m.w = pyo.Param(mutable=True, initialize=5.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(bounds=(0, 10))
    m.off = pyo.Block()
    m.off.u = pyo.Var(bounds=(0, 3))
    m.off.bad = pyo.Constraint(expr=m.off.u + m.z >= 1000 * m.w)
    m.off.deactivate()
    m.no_first = pyo.Constraint(expr=m.y >= 1000)
    m.no_recourse = pyo.Constraint(expr=m.z >= 1000 * m.w)
    m.no_first.deactivate()
    m.no_recourse.deactivate()
    m.need = pyo.Constraint(expr=m.y + m.z + m.off.u >= m.w)
    m.other = pyo.Objective(expr=m.z - m.w, sense=pyo.maximize)
    m.first_only = pyo.Objective(expr=m.y, sense=pyo.maximize)
    m.other.deactivate()
    m.first_only.deactivate()
    m.cost = pyo.Objective(expr=m.y + 3 * m.z + 2 * m.off.u)
    return m.y, m.w


@zoo
def uncertain_bounds(m):
    """Bounds of both stages' variables that move with the data."""
    m.low = pyo.Param(mutable=True, initialize=1.0)
    m.high = pyo.Param(mutable=True, initialize=6.0)
    m.y = pyo.Var(within=pyo.NonNegativeReals, bounds=(m.low, m.high + 1))
    m.z = pyo.Var(bounds=(m.low * m.low, m.high))
    m.need = pyo.Constraint(expr=m.y + m.z >= 5)
    m.cost = pyo.Objective(expr=2 * m.y + 3 * m.z)
    return m.y, [m.low, m.high]


@zoo
def named_expressions(m):
    """Named Expressions: of one stage, of both, indexed, nested, one inside another."""
    m.w = pyo.Param([1, 2], mutable=True, initialize={1: 3.0, 2: 5.0})
    m.y = pyo.Var(bounds=(0, 9))
    m.z = pyo.Var([1, 2], bounds=(0, 9))
    m.now = pyo.Expression(expr=2 * m.y + 1)
    m.gap = pyo.Expression([1, 2], rule=lambda m, i: m.w[i] ** 2 / 4 - m.y)
    m.later = pyo.Expression(expr=sum(3 * m.z[i] for i in (1, 2)))
    m.both = pyo.Expression(expr=m.now + 2 * (m.later + m.y))
    m.unused = pyo.Expression(expr=m.z[1] * m.w[1])
    m.cover = pyo.Constraint([1, 2], rule=lambda m, i: m.z[i] >= m.gap[i])
    m.cap = pyo.Constraint(expr=m.now <= 15)
    m.cost = pyo.Objective(expr=m.both / 2 - 4)
    return "y", "w[*]"


@zoo
def nonlinear_data(m):
    """Products and functions of Params, a ranged row, uncertain costs; maximized."""
    m.a = pyo.Param(mutable=True, initialize=1.5)
    m.b = pyo.Param(mutable=True, initialize=2.0)
    m.y = pyo.Var([1, 2], bounds=(0, 10))
    m.z = pyo.Var([1, 2], bounds=(0, 50))
    m.band = pyo.Constraint(expr=pyo.inequality(m.a, m.z[1] + m.y[1], m.a * m.b + 4))
    m.tech = pyo.Constraint(expr=pyo.exp(m.a) * m.y[1] + m.b * m.z[2] <= 20 + m.b**2)
    m.link = pyo.Constraint(expr=m.z[2] <= m.y[2] + m.a)
    m.profit = pyo.Objective(
        expr=m.b * m.z[1] + pyo.sqrt(m.a) * m.z[2] - m.a * m.b * m.y[1] - 0.5 * m.y[2],
        sense=pyo.maximize,
    )
    return m.y, [m.a, m.b]


@zoo
def integers(m):
    """General integers first, binaries and integers later."""
    m.w = pyo.Param([1, 2], mutable=True, initialize={1: 7.3, 2: 5.1})
    m.trucks = pyo.Var(within=pyo.NonNegativeIntegers, bounds=(0, 9))
    m.hired = pyo.Var([1, 2], within=pyo.NonNegativeIntegers, bounds=(0, 9))
    m.open = pyo.Var([1, 2], within=pyo.Binary)
    m.use = pyo.Constraint([1, 2], rule=lambda m, i: m.hired[i] <= 9 * m.open[i])
    m.need = pyo.Constraint(
        [1, 2], rule=lambda m, i: 1.5 * m.trucks + m.hired[i] >= m.w[i]
    )
    m.cost = pyo.Objective(
        expr=3 * m.trucks + sum(2 * m.hired[i] + m.open[i] for i in (1, 2))
    )
    return m.trucks, m.w


@zoo
def fixed_variables(m):
    """A fixed variable in each stage; one of them is used nowhere."""
    m.w = pyo.Param(mutable=True, initialize=6.0)
    m.y = pyo.Var([1, 2], bounds=(0, 10))
    m.z = pyo.Var([1, 2, 3], bounds=(0, 10))
    m.y[2].fix(1.5)
    m.z[2].fix(0.5)
    m.z[3].fix(0)
    m.need = pyo.Constraint(expr=m.y[1] + m.y[2] + m.z[1] + m.z[2] >= m.w)
    m.cap = pyo.Constraint(expr=m.y[1] + m.y[2] <= 4)
    m.cost = pyo.Objective(expr=m.y[1] + m.y[2] + 2 * m.z[1] + m.z[2])
    return m.y, m.w


@zoo
def piecewise(m):
    """A Piecewise recourse cost, written with binaries."""
    m.w = pyo.Param(mutable=True, initialize=8.0)
    m.y = pyo.Var(bounds=(0, 6))
    m.z = pyo.Var(bounds=(0, 10))
    m.penalty = pyo.Var(bounds=(0, 100))
    m.need = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.curve = pyo.Piecewise(
        m.penalty,
        m.z,
        pw_pts=[0, 2, 5, 10],
        f_rule=[0, 6, 9, 30],
        pw_constr_type="EQ",
        pw_repn="DCC",
        warn_domain_coverage=False,
    )
    m.cost = pyo.Objective(expr=2 * m.y + m.penalty)
    return m.y, m.w


@zoo
def disjunction(m):
    """A recourse that is this or that, reformulated by gdp.bigm."""
    m.w = pyo.Param(mutable=True, initialize=6.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(bounds=(0, 20))
    m.idle = Disjunct()
    m.idle.still = pyo.Constraint(expr=m.z <= 1)
    m.busy = Disjunct()
    m.busy.least = pyo.Constraint(expr=m.z >= 4)
    m.busy.fee = pyo.Var(bounds=(0, 5))
    m.busy.paid = pyo.Constraint(expr=m.busy.fee >= 2)
    m.choice = Disjunction(expr=[m.idle, m.busy])
    m.need = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.cost = pyo.Objective(expr=3 * m.y + 2 * m.z + m.busy.fee)
    pyo.TransformationFactory("gdp.bigm").apply_to(m)
    return m.y, m.w


@zoo
def suffixes_and_references(m):
    """Suffixes on members of both stages, and References to them."""
    m.w = pyo.Param([1, 2], mutable=True, initialize=4.0)
    m.y = pyo.Var([1, 2], bounds=(0, 10))
    m.b = pyo.Block([1, 2])
    for i in (1, 2):
        m.b[i].z = pyo.Var(bounds=(0, 10))
        m.b[i].need = pyo.Constraint(expr=m.y[i] + m.b[i].z >= m.w[i])
    m.all_z = pyo.Reference(m.b[:].z)
    m.all_y = pyo.Reference(m.y[:])
    m.priority = pyo.Suffix(direction=pyo.Suffix.EXPORT)
    m.priority[m.y[1]] = 1
    m.priority[m.b[1].z] = 2
    m.priority[m.b[2].need] = 3
    m.cost = pyo.Objective(expr=sum(m.y.values()) + 2 * sum(m.all_z.values()))
    return m.y, m.w


@zoo
def quadratic(m):
    """A convex quadratic objective in both stages."""
    m.w = pyo.Param([1, 2], mutable=True, initialize={1: 3.0, 2: 7.0})
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var([1, 2], bounds=(0, 10))
    m.need = pyo.Constraint([1, 2], rule=lambda m, i: m.y + m.z[i] >= m.w[i])
    m.cost = pyo.Objective(
        expr=m.y**2
        + 0.5 * m.y
        + sum((m.z[i] - 1) ** 2 + m.w[1] * m.z[i] for i in (1, 2))
    )
    return m.y, m.w


@zoo
def cross_products(m):
    """A quadratic objective written as products, with an uncertain coefficient."""
    m.w = pyo.Param([1, 2], mutable=True, initialize={1: 2.0, 2: 7.0})
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var([1, 2], bounds=(0, 10))
    m.need = pyo.Constraint([1, 2], rule=lambda m, i: m.y + m.z[i] >= m.w[2])
    m.cost = pyo.Objective(
        expr=m.y * m.y
        + 4 * m.z[1] * m.z[1]
        + m.w[1] * m.z[1] * m.z[2]
        + 3 * m.z[2] * m.z[2]
    )
    return m.y, m.w


@zoo
def hull(m):
    """Nested and indexed disjuncts reformulated by gdp.hull."""
    m.w = pyo.Param(mutable=True, initialize=6.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(bounds=(0, 20))
    m.f = pyo.Var(bounds=(0, 20))
    m.low = Disjunct()
    m.low.c = pyo.Constraint(expr=m.z <= 1)
    m.high = Disjunct()
    m.high.c = pyo.Constraint(expr=m.z >= 2)
    m.high.part = Disjunct([1, 2])
    m.high.part[1].c = pyo.Constraint(expr=m.f >= 4)
    m.high.part[2].c = pyo.Constraint(expr=m.f + m.z >= 7)
    m.high.inner = Disjunction(expr=[m.high.part[1], m.high.part[2]])
    m.outer = Disjunction(expr=[m.low, m.high])
    m.need = pyo.Constraint(expr=m.y + m.z >= m.w)
    m.cost = pyo.Objective(expr=3 * m.y + 2 * m.z + m.f)
    pyo.TransformationFactory("gdp.hull").apply_to(m)
    return m.y, m.w


@zoo
def loose_components(m):
    """Lists, an index of Any, sparse and default Params, an immutable indexed Param."""
    m.rate = pyo.Param([1, 2, 3], initialize={1: 1.0, 2: 2.0, 3: 1.5})
    m.w = pyo.Param([1, 2, 3], mutable=True, default=5.0, initialize={2: 4.0})
    m.y = pyo.VarList(bounds=(0, 10))
    m.z = pyo.Var(pyo.Any, dense=False, bounds=(0, 20))
    m.rows = pyo.ConstraintList()
    cost = 0
    for i in (1, 2, 3):
        y = m.y.add()
        cost += y + 3 * m.z["late", i]
        m.rows.add(m.rate[i] * y + m.z["late", i] >= m.w[i])
        m.rows.add(y <= 4)
    m.skipped = pyo.Constraint([1, 2], rule=lambda m, i: pyo.Constraint.Skip)
    m.cost = pyo.Objective(expr=cost)
    return m.y, m.w


@zoo
def dead_expressions(m):
    """Expressions on variables that no active part uses, alive and in a dead Block."""
    m.w = pyo.Param(mutable=True, initialize=6.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.z = pyo.Var(bounds=(0, 20))
    m.off = pyo.Block()
    m.off.u = pyo.Var()
    m.off.e = pyo.Expression(expr=m.off.u + m.z + 1)
    m.off.used = pyo.Expression(expr=2 * m.z + m.w)
    m.off.deactivate()
    m.report = pyo.Expression(expr=m.off.u * m.z)
    m.need = pyo.Constraint(expr=m.y + m.off.used >= 3 * m.w)
    m.cost = pyo.Objective(expr=m.y + 3 * m.z)
    return m.y, m.w


def from_abstract():
    """An instance of an AbstractModel, made from data."""
    m = pyo.AbstractModel("from_abstract")
    m.sites = pyo.Set()
    m.need = pyo.Param(m.sites, mutable=True, within=pyo.NonNegativeReals)
    m.size = pyo.Var(m.sites, bounds=(0, 10))
    m.short = pyo.Var(m.sites, within=pyo.NonNegativeReals)
    m.serve = pyo.Constraint(
        m.sites, rule=lambda m, s: m.size[s] + m.short[s] >= m.need[s]
    )
    m.cost = pyo.Objective(
        rule=lambda m: sum(m.size[s] + 2.5 * m.short[s] for s in m.sites)
    )
    data = {None: {"sites": {None: ["a", "b"]}, "need": {"a": 4.0, "b": 7.0}}}
    instance = m.create_instance(data)
    csg.annotate(instance, first_stage_variables="size", uncertain_params="need")
    return instance


ZOO["from_abstract"] = from_abstract


@zoo
def units(m):
    """Params and Vars with units."""
    kg = pyo.units.kg
    m.w = pyo.Param([1, 2], mutable=True, initialize=5.0, units=kg)
    m.y = pyo.Var(bounds=(0, 10), units=kg)
    m.z = pyo.Var([1, 2], bounds=(0, 10), units=kg)
    m.need = pyo.Constraint([1, 2], rule=lambda m, i: m.y + m.z[i] >= m.w[i])
    m.cost = pyo.Objective(expr=m.y + 3 * m.z[1] + 2 * m.z[2])
    return m.y, m.w


@zoo
def long_chain(m):
    """Named Expressions, each on the one before, three hundred deep."""
    steps = range(1, 301)
    m.w = pyo.Param([1, 300], mutable=True, initialize=2.0)
    m.y = pyo.Var(bounds=(0, 10))
    m.x = pyo.Var([1, 200, 300], bounds=(0, 10))
    m.stock = pyo.Expression([0, *steps])
    m.stock[0] = m.y
    for t in steps:
        change = m.x[t] if t in (1, 200, 300) else 0
        change -= m.w[t] if t in (1, 300) else 0
        m.stock[t] = m.stock[t - 1] + change
    m.final = pyo.Constraint(expr=m.stock[300] >= 0)
    m.spare = pyo.Constraint(expr=m.stock[200] - m.x[1] <= 12)
    m.cost = pyo.Objective(expr=2 * m.y + sum(m.x.values()) * 3)
    return m.y, m.w


def sos_piecewise():
    """A Piecewise recourse cost by special ordered sets, which HiGHS does not take."""
    m = pyo.ConcreteModel("sos_piecewise")
    m.w = pyo.Param(mutable=True, initialize=8.0)
    m.y = pyo.Var(bounds=(0, 6))
    m.z = pyo.Var([1, 2], bounds=(0, 10))
    m.penalty = pyo.Var([1, 2], bounds=(0, 100))
    m.need = pyo.Constraint([1, 2], rule=lambda m, i: m.y + m.z[i] >= m.w)
    m.curve = pyo.Piecewise(
        [1, 2],
        m.penalty,
        m.z,
        pw_pts={1: [0, 2, 5, 10], 2: [0, 4, 10]},
        f_rule={1: [0, 6, 9, 30], 2: [0, 2, 9]},
        pw_constr_type="EQ",
        pw_repn="SOS2",
        warn_domain_coverage=False,
    )
    m.cost = pyo.Objective(expr=2 * m.y + sum(m.penalty.values()))
    csg.annotate(m, first_stage_variables=m.y, uncertain_params=m.w)
    return m
