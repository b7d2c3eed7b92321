package config

import (
	"path/filepath"
	"strings"

	"lilac/internal/engine/bucket"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/signing"
	"lilac/internal/store"
)

// BlobsDir returns the directory of the stored files. With a bucket, it has copies of some.
func BlobsDir(c *Config) string {
	if c.Attachments.Store == "" || strings.HasPrefix(c.Attachments.Store, bucket.Scheme) {
		return store.BlobsDir(c.DataDir)
	}
	return c.Attachments.Store
}

// BlobsBucket returns the bucket of the stored files, or nil if they are in a directory.
func BlobsBucket(c *Config) (store.Bucket, error) {
	if !strings.HasPrefix(c.Attachments.Store, bucket.Scheme) {
		return nil, nil
	}
	address, err := bucket.Parse(c.Attachments.Store)
	if err != nil {
		return nil, err
	}
	return bucket.New(bucket.Options{Address: address, Credentials: func() bucket.Credentials {
		return bucket.Credentials(signing.AWSFromEnv(c.getenv))
	}}), nil
}

// checkStore validates attachments.store.
func (c checker) checkStore() error {
	const field = "attachments.store"
	in := c.Attachments.Store
	if _, err := BlobsBucket(c.Config); err != nil {
		return fault.InvalidField(field, "%s", fault.ToWire(err).Message)
	}
	switch {
	case in == "" || strings.HasPrefix(in, bucket.Scheme):
		return nil
	case strings.Contains(in, "://"):
		return fault.InvalidField(field, "attachments.store is neither a directory nor s3://BUCKET.")
	case !filepath.IsAbs(in):
		return fault.InvalidField(field, "attachments.store has to be an absolute path or s3://BUCKET.")
	}
	if within(in, c.Workspace) {
		return fault.InvalidField(field, "attachments.store is in the workspace, where the agent could change the files. Use a directory outside of it.")
	}
	return nil
}
