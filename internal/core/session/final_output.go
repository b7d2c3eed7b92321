package session

import (
	"cmp"
	"encoding/json"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// FinalOutput rebuilds the output of a finished request from its journal: the
// anchors, the files and the final text. Callers use it when the output topic is
// gone, because a bus may lose it and a new bus does not have it. It returns
// fault.NotFound if the journal does not contain the end.
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
		return nil, fault.New(fault.NotFound, "The journal does not contain the end of the request %s.", requestID)
	}
	p, err := s.opt.Tables.progressIn(q, sessionID, requestID, entries)
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
	return append(out, finalEvent(cmp.Or(end.Notice, p.text), nil, *end)), nil
}
