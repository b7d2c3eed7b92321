package router

import (
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// Config is the section "router" of the configuration: which messages of a platform
// wake the agent.
type Config struct {
	Debounce DebounceConfig `json:"debounce,omitempty" jsonschema:"How long to wait for more messages in an active channel before answering."`
	Gate     string         `json:"gate,omitempty" jsonschema:"A small model, as provider/model, that decides whether messages in an active channel need an answer. Without it, all of them are answered."`
}

// DebounceConfig configures how long to wait for the end of a burst of messages.
type DebounceConfig struct {
	Wait setting.Duration `json:"wait,omitempty" jsonschema:"Time after the last message."`
	Max  setting.Duration `json:"max,omitempty" jsonschema:"Maximum time after the first message."`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Debounce: DebounceConfig{Wait: setting.Duration(3 * time.Second), Max: setting.Duration(10 * time.Second)}}
}

// Check rejects a debounce that could not end.
func (c Config) Check() error {
	if d := c.Debounce; d.Wait < 0 || d.Max < d.Wait {
		return fault.InvalidField("router.debounce", "router.debounce waits %s and at most %s; the second has to be the longer one.", d.Wait, d.Max)
	}
	return nil
}

// Times returns the times for which bursts are collected.
func (c DebounceConfig) Times() Debounce {
	return Debounce{Wait: time.Duration(c.Wait), Max: time.Duration(c.Max)}
}
