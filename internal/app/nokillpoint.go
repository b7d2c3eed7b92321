//go:build !killpoints

package app

import "lilac/internal/config"

func onCommit(*config.Config) func(bool) { return nil }
