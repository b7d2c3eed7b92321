package db

import (
	"database/sql/driver"

	"modernc.org/sqlite"
)

// NewFunction makes fn, which has to be a pure one, known to the SQL of every
// database that is opened from now on, and returns its name. NULL stays NULL. Two
// functions of a name panic; it is meant for variables of a package.
func NewFunction(name string, fn func(text string) string) string {
	sqlite.MustRegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		if text, ok := args[0].(string); ok {
			return fn(text), nil
		}
		return args[0], nil
	})
	return name
}
