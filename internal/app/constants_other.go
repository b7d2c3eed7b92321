//go:build !linux

package app

func releaseConstants() error { return nil }
