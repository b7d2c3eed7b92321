package environment

import "github.com/itchyny/gojq"

// What a plain expression may take, and what is assumed of an event: how many
// values .. finds, and how many [].
const (
	maxSteps      = 100_000
	recurseValues = 1000
	iterateValues = 10
)

// cost is how many values an expression gives, and in how many steps. It tells
// an expression that looks at an event once from one that looks again at each
// thing it finds, as .. within .. does, and from one that doubles what it looks
// at, as (., .) does: those take minutes.
type cost struct{ values, steps float64 }

// then is the cost of b for each value of a.
func (a cost) then(b cost) cost { return cost{a.values * b.values, a.steps + a.values*b.steps} }

func (a cost) plus(b cost) cost { return cost{a.values + b.values, a.steps + b.steps} }

var (
	single  = cost{1, 1}
	recurse = cost{recurseValues, recurseValues}
	iterate = cost{iterateValues, iterateValues}
)

// costOf is the cost of a plain expression.
func costOf(q *gojq.Query) cost {
	switch {
	case q == nil:
		return single
	case q.Term != nil:
		return costOfTerm(q.Term)
	case q.Op == gojq.OpComma:
		return costOf(q.Left).plus(costOf(q.Right))
	}
	return costOf(q.Left).then(costOf(q.Right))
}

func costOfTerm(t *gojq.Term) cost {
	c := single
	switch t.Type {
	case gojq.TermTypeRecurse:
		c = recurse
	case gojq.TermTypeIndex:
		c = costOfIndex(t.Index)
	case gojq.TermTypeFunc:
		c = costOfCall(t.Func)
	case gojq.TermTypeQuery:
		c = costOf(t.Query)
	case gojq.TermTypeUnary:
		c = costOfTerm(t.Unary.Term)
	}
	for _, s := range t.SuffixList {
		if s.Iter {
			c = c.then(iterate)
		}
		if s.Index != nil {
			c = c.then(costOfIndex(s.Index))
		}
	}
	return c
}

func costOfIndex(i *gojq.Index) cost { return costOf(i.Start).then(costOf(i.End)) }

func costOfCall(f *gojq.Func) cost {
	c := single
	if (f.Name == "any" || f.Name == "all") && len(f.Args) < 2 {
		c = iterate // they look at each member
	}
	for _, arg := range f.Args {
		c = c.then(costOf(arg))
	}
	switch f.Name {
	case "any", "all", "first", "IN":
		c.values = 1
	case "tostring":
		c.steps = iterateValues * iterateValues // it writes all that is below
	}
	return c
}
