package config

import "lilac/internal/foundation/fault"

// Location is what leads to a server, and to what it keeps.
type Location struct {
	DataDir string
	// Token is the operator's own; empty means that the data directory has one.
	Token Secret
}

// Locate reads where a server is out of a configuration that may have mistakes
// elsewhere: a server that runs goes on with what it read before, and who talks
// to it need not have the variables that its configuration names.
func Locate(src Source) (Location, error) {
	c, _, mistakes, err := read(src)
	from := c.Origin("dataDir")
	if err != nil && (c.File == "" || from == "default") {
		return Location{}, err // what cannot be read may name another directory
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
	return Location{DataDir: dir, Token: c.Token}, nil
}
