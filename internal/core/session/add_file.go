package session

import (
	"context"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// AddFile adds a file to the output of a running request. If the output has a file
// with that id, nothing changes.
func (s *Service) AddFile(ctx context.Context, requestID string, f event.BinaryOutput) error {
	r := s.runOf(requestID)
	if r == nil {
		return errOutputEnded
	}
	ctx, cancel := extendPastCancel(ctx)
	defer cancel()
	err := r.write(ctx, func(c *change) error {
		fresh, err := c.tables.Files.PutFile(c.tx, File{
			SessionID: r.sessionID, RequestID: requestID, ID: f.BinaryID, CreatedAt: c.now(), Filename: f.Filename, MimeType: f.MimeType, Bytes: f.Bytes, Blob: f.Blob,
		})
		if err != nil || !fresh {
			return err
		}
		return c.publish(requestID+"/binary/"+f.BinaryID, r.headers(), f)
	})
	// The request may have ended just now, while its run is still registered.
	if staleOwner(err) {
		return errOutputEnded
	}
	return err
}

// extendPastCancel keeps ctx alive for recordTime after cancellation: a tool that
// is stopped must not interrupt the run's write, which would end the run.
func extendPastCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(recordTime, cancel) })
	return longer, func() { stop(); cancel() }
}

var errOutputEnded = fault.New(fault.Gone, "The request has ended, so its output takes no more files.")
