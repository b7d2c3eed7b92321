package session

import (
	"context"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// HandOver adds a file to the output of a running request: only the runner
// writes there. A file with an id that was given already changes nothing.
func (s *Service) AddFile(ctx context.Context, requestID string, f event.BinaryOutput) error {
	r := s.runOf(requestID)
	if r == nil {
		return errOutputEnded
	}
	ctx, cancel := extendPastCancel(ctx)
	defer cancel()
	err := r.write(ctx, func(c *change) error {
		fresh, err := c.tables().Files.PutFile(c.tx, File{
			SessionID: r.sessionID, RequestID: requestID, ID: f.BinaryID, CreatedAt: c.now(), Filename: f.Filename, MimeType: f.MimeType, Bytes: f.Bytes, Blob: f.Blob,
		})
		if err != nil || !fresh {
			return err
		}
		return c.publish(requestID+"/binary/"+f.BinaryID, r.headers(), f)
	})
	// The request may have ended just now, while its run is still known here.
	if staleOwner(err) {
		return errOutputEnded
	}
	return err
}

// extendPastCancel is ctx for recordTime longer: a tool that is stopped here must not stop the
// run's record half-way, and while it is not, a slow disk is waited for as
// elsewhere.
func extendPastCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(recordTime, cancel) })
	return longer, func() { stop(); cancel() }
}

var errOutputEnded = fault.New(fault.Gone, "The request has ended; nobody reads its output any more.")
