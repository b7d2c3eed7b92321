// Package catalog holds public facts about models: the size of their context window,
// their output limit, their prices, and what they accept.
//
// The facts are data, not code: catalog.json has the shape of models.dev/api.json and
// states its date and its sources under the key $source. "go generate" builds it from
// the Go module charm.land/catwalk and from supplement.json, whose figures were taken
// from the vendors' pages and win. Operators can replace the file with a newer one of
// the same shape.
//
// A [Catalog] is immutable after [Parse] and safe for concurrent use. The package does
// no I/O.
package catalog

//go:generate sh -c "cd ../../../tools && go run ./catalog ../internal/model/catalog"
