package logs

// Config is the section "log" of the configuration.
type Config struct {
	Level  string `json:"level,omitempty" enum:"debug,info,warn,error" jsonschema:"The lowest level to log: debug, info, warn, or error."`
	Format string `json:"format,omitempty" enum:"auto,json,text" jsonschema:"json, text, or auto (text on a terminal, otherwise json)."`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Level: "info", Format: "auto"} }
