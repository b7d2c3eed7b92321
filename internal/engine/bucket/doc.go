// Package bucket reads and writes the objects of a bucket in a store that speaks the protocol of
// Amazon S3, such as AWS, MinIO, Garage, Ceph, and Cloudflare R2.
//
// It uses four operations of the protocol (PutObject, GetObject, DeleteObject, ListObjectsV2), signed with version 4 of AWS's signatures. A client library would add more to
// the size of the program than it may grow.
//
// All operations can be repeated, and are: a failure that may pass is tried again twice.
package bucket
