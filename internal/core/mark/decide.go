package mark

import (
	"time"

	"lilac/internal/foundation/fault"
)

const (
	// giveUpAfter is when a mark is no longer worth showing.
	giveUpAfter = 10 * time.Minute
	// removeFor is how long removing a mark is tried.
	removeFor = 24 * time.Hour
	// firstRetry is the wait after a failed call. It doubles up to lastRetry.
	firstRetry = 2 * time.Second
	lastRetry  = 2 * time.Minute
)

// Decide returns the state after the input, and the effects. An empty Mark is to be
// deleted.
func Decide(m Mark, in Input, now time.Time) (Mark, []Effect) {
	at := now.UnixMilli()
	switch in := in.(type) {
	case Wanted:
		if m.Wanted {
			return m, nil
		}
		m.Ref, m.Emoji, m.Notice = in.Ref, in.Emoji, in.Notice
		m.Wanted, m.Shown, m.Since, m.RetryAt, m.Failures = true, false, at, 0, 0
	case Noticed:
		if m.Wanted {
			return m, nil
		}
		notice := in.Notice
		notice.Due = true
		m.Ref, m.Emoji, m.Notice = in.Ref, noticeKey+notice.UserID, &notice
		m.Wanted, m.Since = true, at
	case Withdrawn:
		if m.Empty() || !m.Wanted {
			return m, nil
		}
		if m.noticeDue() {
			return m, nil // the notice is sent all the same
		}
		// A call that adds it may be in progress, so it is removed even if it is not
		// known to be shown.
		m.Wanted, m.Shown, m.Since, m.RetryAt, m.Failures = false, true, at, 0, 0
	case Called:
		return called(m, in, now)
	}
	return m, nil
}

func called(m Mark, in Called, now time.Time) (Mark, []Effect) {
	switch {
	case in.Err == nil && in.Noticed:
		return Mark{}, nil
	case in.Err == nil && in.Added != m.Wanted:
		return m, nil // it was withdrawn meanwhile: the next call removes it
	case in.Err == nil && in.Added:
		m.Shown, m.RetryAt, m.Failures = true, 0, 0
		return m, nil
	case in.Err == nil:
		return Mark{}, nil
	}
	limit := giveUpAfter
	if !m.Wanted {
		limit = removeFor
	}
	late := now.Sub(time.UnixMilli(m.Since)) >= limit
	if mayPass(fault.KindOf(in.Err)) && !late {
		wait := min(firstRetry<<min(m.Failures, 10), lastRetry)
		if asked := fault.RetryAfterOf(in.Err); asked > wait {
			wait = min(asked, lastRetry)
		}
		m.RetryAt, m.Failures = now.Add(wait).UnixMilli(), m.Failures+1
		return m, nil
	}
	if m.Wanted && m.Notice != nil && !in.Noticed {
		notice := *m.Notice
		notice.Due = true
		m.Notice, m.Since, m.RetryAt, m.Failures = &notice, now.UnixMilli(), 0, 0
		return m, nil
	}
	return Mark{}, []Effect{Lost{Err: in.Err, Notice: m.Notice}}
}

// mayPass reports whether the same call may succeed later.
func mayPass(k fault.Kind) bool { return k.Retryable() || k == fault.Timeout || k == fault.Internal }
