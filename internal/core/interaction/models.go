package interaction

import (
	"context"

	"lilac/internal/engine/db"
)

// Models returns the model that answers next in a channel, and those to choose from.
func (s *Service) Models(ctx context.Context, channelID string) (current string, selectable []string, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		current = s.o.Model(q, channelID)
		return nil
	})
	return current, s.o.Selectable(), err
}

// ChooseModel makes a model that of a channel from the next request on; "" follows the
// configuration again. interactionID makes the change unique.
func (s *Service) ChooseModel(tx *db.Tx, channelID, interactionID, model string) error {
	return s.o.Choose(tx, channelID, "session.updated:"+channelID+":model:"+interactionID, model)
}
