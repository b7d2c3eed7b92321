package db

import (
	"database/sql/driver"

	"modernc.org/sqlite"
)

// RegisterFunction makes a pure function available to the SQL of every database that
// is opened afterwards, and returns its name. NULL stays NULL. It panics if the name is
// taken; call it from package variables.
func RegisterFunction(name string, fn func(text string) string) string {
	sqlite.MustRegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		if text, ok := args[0].(string); ok {
			return fn(text), nil
		}
		return args[0], nil
	})
	return name
}
