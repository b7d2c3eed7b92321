package environment

import "github.com/itchyny/gojq"

// maxSteps bounds the cost of a restricted expression. The estimate assumes that .. yields
// recurseValues values, and [] yields iterateValues.
const (
	maxSteps      = 100_000
	recurseValues = 1000
	iterateValues = 10
)

// cost estimates the results and the steps of an expression. It distinguishes expressions
// that read an event once from those that read it again for each result, like .. within
// .., and from those that double their input, like (., .): these take minutes.
type cost struct{ values, steps float64 }

// then returns the cost of b for each value of a.
func (a cost) then(b cost) cost { return cost{a.values * b.values, a.steps + a.values*b.steps} }

func (a cost) plus(b cost) cost { return cost{a.values + b.values, a.steps + b.steps} }

var (
	single  = cost{1, 1}
	recurse = cost{recurseValues, recurseValues}
	iterate = cost{iterateValues, iterateValues}
)

// costOf estimates the cost of a restricted expression.
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
		c = iterate // they read each member
	}
	for _, arg := range f.Args {
		c = c.then(costOf(arg))
	}
	switch f.Name {
	case "any", "all", "first", "IN":
		c.values = 1
	case "tostring":
		c.steps = iterateValues * iterateValues // it encodes everything below
	}
	return c
}
