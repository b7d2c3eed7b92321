package session

import (
	"cmp"
	"encoding/json"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Said is what a request that has ended has said, with the files that it gave:
// the events of its output that matter then, for who finds the output gone. A bus
// may lose it, and after a change of the bus the new one does not have it. It is a
// fault.NotFound when the journal does not know the end.
func (s *Service) FinalOutput(q db.Queryer, sessionID, requestID string) (out []event.Payload, err error) {
	entries, err := s.opt.Tables.Journal.Journal(q, requestID)
	if err != nil {
		return nil, err
	}
	var end *endEntry
	for _, e := range entries {
		switch e.Kind {
		case kindInput:
			var in inputEntry
			if err := json.Unmarshal(e.Data, &in); err != nil {
				return nil, fmt.Errorf("journal entry %d (%s): %w", e.Seq, e.Kind, err)
			}
			if in.Queue != event.Prompt {
				out = append(out, event.OutputAnchor{MessageID: in.MessageID, Offset: in.Offset})
			}
		case kindEnd:
			end = &endEntry{}
			if err := json.Unmarshal(e.Data, end); err != nil {
				return nil, fmt.Errorf("journal entry %d (%s): %w", e.Seq, e.Kind, err)
			}
		}
	}
	if end == nil {
		return nil, fault.New(fault.NotFound, "How the request %s ended is not known.", requestID)
	}
	p, err := s.progressIn(q, sessionID, requestID, entries)
	if err != nil {
		return nil, err
	}
	files, err := s.opt.Tables.Files.Files(q, sessionID, []string{requestID})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		out = append(out, event.BinaryOutput{BinaryID: f.ID, MimeType: f.MimeType, Filename: f.Filename, Blob: f.Blob, Bytes: f.Bytes})
	}
	return append(out, finalEvent(cmp.Or(end.Notice, p.text), nil, end.Quiet)), nil
}
