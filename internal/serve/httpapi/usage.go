package httpapi

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	usageDays    = 30 // by default
	maxUsageDays = 366
	// maxConsumed bounds the requests that one answer sums up, and the calls without a request.
	maxConsumed = 200_000
)

// usage serves sums of what requests have used.
type usage struct {
	db       *db.DB
	table    RequestTable
	sessions *sessions
	now      func() time.Time
}

func (u *usage) sum(r *http.Request) (out session.Consumption, err error) {
	query := r.URL.Query()
	days, err := strconv.Atoi(cmp.Or(query.Get("days"), strconv.Itoa(usageDays)))
	if err != nil || days < 1 || days > maxUsageDays {
		return out, fault.InvalidField("days", "days must be a number from 1 to %d.", maxUsageDays)
	}
	now := u.now()
	if name := query.Get("zone"); name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil {
			return out, fault.InvalidField("zone", "%q is no time zone. It looks like Europe/Berlin.", name)
		}
		now = now.In(zone)
	}
	err = u.db.Read(r.Context(), func(q db.Queryer) error {
		used, err := u.table.Consumed(q, session.FirstDay(now, days).UnixMilli(), maxConsumed)
		out = session.SumUp(used, now, days)
		out.Partial = len(used) >= maxConsumed
		for i := range out.Channels {
			// A conversation that was deleted has no title any more.
			if s, err := u.sessions.table.Session(q, out.Channels[i].Name); err == nil {
				out.Channels[i].Title = s.Title
			}
		}
		return err
	})
	return out, err
}
