package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lilac/internal/engine/bucket"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/store"
)

// bucketWithin bounds the check of the bucket.
const bucketWithin = 10 * time.Second

// bucket checks that the bucket of the stored files can be read and listed, if there is one.
func (p Patient) bucket(ctx context.Context) []Finding {
	const check = "bucket of the stored files"
	in, err := config.BlobsBucket(p.Config)
	if in == nil && err == nil {
		return nil
	}
	if err == nil {
		err = readable(ctx, in)
	}
	if err != nil {
		return []Finding{{check, Fail, says(err), "Until this works, files that people and the agent send are refused. Text is answered."}}
	}
	return []Finding{{check, OK, fmt.Sprintf("%s can be read and listed", p.Config.Attachments.Store), ""}}
}

// errSeen ends a list after its first page.
var errSeen = fault.New(fault.Cancelled, "the first page is enough")

func readable(ctx context.Context, in store.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, bucketWithin)
	defer cancel()
	err := in.List(ctx, func([]bucket.Object) error { return errSeen })
	if errors.Is(err, errSeen) {
		return nil
	}
	return err
}
