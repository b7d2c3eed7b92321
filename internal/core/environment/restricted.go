package environment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// allowedOperators only combine and compare values.
var allowedOperators = []gojq.Operator{
	gojq.OpPipe, gojq.OpComma, gojq.OpAlt, gojq.OpAnd, gojq.OpOr,
	gojq.OpEq, gojq.OpNe, gojq.OpLt, gojq.OpLe, gojq.OpGt, gojq.OpGe,
}

// allowedFunctions return nothing larger than their input. arguments are the allowed
// numbers of arguments. literal requires literals as arguments, because the function
// costs the product of the sizes of input and argument.
var allowedFunctions = map[string]struct {
	arguments []int
	literal   bool
}{
	"not": {arguments: []int{0}}, "empty": {arguments: []int{0}}, "length": {arguments: []int{0}}, "type": {arguments: []int{0}},
	"tostring": {arguments: []int{0}}, "tonumber": {arguments: []int{0}}, "ascii_downcase": {arguments: []int{0}}, "ascii_upcase": {arguments: []int{0}},
	"values": {arguments: []int{0}}, "strings": {arguments: []int{0}}, "numbers": {arguments: []int{0}},
	"any": {arguments: []int{0, 1, 2}}, "all": {arguments: []int{0, 1, 2}}, "select": {arguments: []int{1}}, "first": {arguments: []int{1}},
	"has": {arguments: []int{1}}, "startswith": {arguments: []int{1}}, "endswith": {arguments: []int{1}}, "IN": {arguments: []int{1}},
	"contains": {arguments: []int{1}, literal: true}, "inside": {arguments: []int{1}, literal: true}, "index": {arguments: []int{1}, literal: true},
	"test": {arguments: []int{1, 2}, literal: true},
}

// maxRegexpSteps bounds the steps of a regular expression, because each step can run for
// each character.
const maxRegexpSteps = 300

// restrictedPrelude precedes an expression. It makes tonumber fail for strings longer than
// [maxDigits].
const restrictedPrelude = `def _tonumber: tonumber; def tonumber: if type == "string" and length > %d then error("it is too long for a number") else _tonumber end; `

// compileRestrictedQuery compiles a jq expression from an untrusted author, such as the
// agent: it may only read the event and compare. Full jq can create values of any size
// in single steps that no deadline ends ([] | .[536870910] = 1); the cost of a restricted
// expression is bounded by the size of the event.
func compileRestrictedQuery(text string) (*query, error) {
	parsed, err := parseQuery(text)
	if err != nil {
		return nil, err
	}
	if err := checkQuery(parsed); err != nil {
		return nil, err
	}
	if costOf(parsed).steps > maxSteps {
		return nil, errors.New("the jq expression reads the event too often: use .. at most once, and [] a few times")
	}
	return compileQuery(fmt.Sprintf(restrictedPrelude, maxDigits) + text)
}

func notAllowed(what string) error {
	return fmt.Errorf("the jq expression has %s; it may only read the event and compare, with paths, literals, | , // == != < <= > >= and or, and %s",
		what, strings.Join(slices.Sorted(maps.Keys(allowedFunctions)), ", "))
}

// checkQuery returns an error for the first part of an expression that is not allowed.
func checkQuery(q *gojq.Query) error {
	switch {
	case q == nil:
		return nil
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return notAllowed("a definition")
	case q.Term != nil:
		return checkTerm(q.Term)
	case !slices.Contains(allowedOperators, q.Op):
		return notAllowed(q.Op.String())
	}
	return cmp.Or(checkQuery(q.Left), checkQuery(q.Right))
}

func checkTerm(t *gojq.Term) (err error) {
	switch t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeRecurse, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
	case gojq.TermTypeIndex:
		err = checkIndex(t.Index)
	case gojq.TermTypeFunc:
		err = checkCall(t.Func)
	case gojq.TermTypeQuery:
		err = checkQuery(t.Query)
	case gojq.TermTypeUnary:
		err = checkTerm(t.Unary.Term)
	default:
		if !isLiteralTerm(t) {
			err = notAllowed(t.String())
		}
	}
	for _, s := range t.SuffixList {
		if s.Index != nil {
			err = cmp.Or(err, checkIndex(s.Index))
		}
	}
	return err
}

func checkIndex(i *gojq.Index) error {
	if i.Str != nil && len(i.Str.Queries) > 0 {
		return notAllowed(i.Str.String())
	}
	return cmp.Or(checkQuery(i.Start), checkQuery(i.End))
}

func checkCall(f *gojq.Func) error {
	known, ok := allowedFunctions[f.Name]
	if !ok || !slices.Contains(known.arguments, len(f.Args)) {
		return notAllowed(f.String())
	}
	for _, arg := range f.Args {
		if known.literal && !isLiteral(arg) {
			return fmt.Errorf("the argument of %s in the jq expression is not a literal", f.Name)
		}
		if err := checkQuery(arg); err != nil {
			return err
		}
	}
	if f.Name == "test" {
		return checkRegexp(f.Args[0])
	}
	return nil
}

// checkRegexp returns an error for a regular expression that would take too long.
func checkRegexp(arg *gojq.Query) error {
	if arg.Term == nil || arg.Term.Str == nil {
		return errors.New("the regular expression in the jq expression is not a string literal")
	}
	parsed, err := syntax.Parse(arg.Term.Str.Str, syntax.Perl)
	if err != nil {
		return fmt.Errorf("the jq expression has an error in a regular expression: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return fmt.Errorf("the jq expression has an error in a regular expression: %w", err)
	}
	if len(program.Inst) > maxRegexpSteps {
		return fmt.Errorf("the jq expression has a regular expression of %d steps, more than %d", len(program.Inst), maxRegexpSteps)
	}
	return nil
}

// isLiteral reports whether an expression is a literal.
func isLiteral(q *gojq.Query) bool {
	switch {
	case q == nil:
		return true // in []
	case q.Op == gojq.OpComma:
		return isLiteral(q.Left) && isLiteral(q.Right)
	}
	return q.Term != nil && len(q.Term.SuffixList) == 0 && isLiteralTerm(q.Term)
}

func isLiteralTerm(t *gojq.Term) bool {
	switch t.Type {
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return true
	case gojq.TermTypeString:
		return len(t.Str.Queries) == 0
	case gojq.TermTypeArray:
		return isLiteral(t.Array.Query)
	}
	return false
}
