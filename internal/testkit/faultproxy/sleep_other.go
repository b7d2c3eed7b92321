//go:build !linux

package faultproxy

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
