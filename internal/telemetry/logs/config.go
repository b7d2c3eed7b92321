package logs

// Config is the section "log" of the configuration.
type Config struct {
	Level  string `json:"level,omitempty" enum:"debug,info,warn,error" jsonschema:"The lowest level to log: debug, info, warn, or error."`
	Format string `json:"format,omitempty" enum:"auto,json,text" jsonschema:"json, text, or auto (text on a terminal, otherwise json). With json, the start prints no login link: lilac login prints one."`
}

// FormatJSON is the format for programs that collect logs.
const FormatJSON = "json"

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Level: "info", Format: "auto"} }
