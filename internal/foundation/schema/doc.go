// Package schema derives the JSON schema of an input from a Go struct, and
// decodes JSON into that struct. The struct is the only description of an input:
// its schema, its help, its validation and its decoding cannot disagree.
//
// Names come from the tag json; a field with omitempty is optional, all others
// are required. The description of a field is in its tag jsonschema. More tags
// set limits:
//
//	min, max     of a number, of the characters of a string, or of the entries of a list
//	default      the value of a field that is missing
//	enum         the allowed values, separated by commas
//	pattern      a regular expression that a string must match
//	blank:"no"   a string of white space is refused (the schema does not show it)
//
// Inputs are written by language models and people, so decoding is generous: a
// field may be spelled in kebab, snake or camel case, a number or a boolean may be
// in quotes, a single value stands for a list of one, and null means missing. Errors
// are faults of kind Invalid that name each field at fault and what it must be.
//
// A [Schema] is derived when it is first used, because deriving all of them would
// slow down every start. It is safe for concurrent use. Any layer may use it.
package schema
