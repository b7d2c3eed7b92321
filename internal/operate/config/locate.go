package config

import "lilac/internal/foundation/fault"

// A Location holds what a client needs to find a server and its data.
type Location struct {
	DataDir string
	// Token is the token that the operator set; if empty, the data directory holds one.
	Token Secret
	// Database is the address of the database.
	Database DatabaseURL
}

// Locate finds the server even if other parts of the configuration have mistakes: a running server
// keeps the configuration that it loaded before, and clients may lack the environment variables
// that the configuration refers to.
func Locate(src Source) (Location, error) {
	c, _, mistakes, err := read(src)
	from := c.Origin("dataDir")
	if err != nil && (c.File == "" || from == "default") {
		return Location{}, err // the unreadable part may name another directory
	}
	if from == fromFile && c.unreadable("dataDir") {
		return Location{}, asError(mistakes)
	}
	if c.DataDir == "" {
		return Location{}, fault.InvalidField("dataDir", "dataDir is empty.")
	}
	dir, err := c.pathOf("dataDir", c.DataDir)
	if err != nil {
		return Location{}, err
	}
	return Location{DataDir: dir, Token: c.Token, Database: c.Database.URL}, nil
}
