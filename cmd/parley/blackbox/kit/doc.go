// Package kit has the fixtures of the black box: tests that start the binary as an operator
// would and use it over HTTP as a client would. Neither the kit nor the tests import anything
// of the server, so that a name or a rule passes only if the HTTP API exposes it.
//
// A new test goes into the package of its subject beside this folder, and begins like this:
//
//	func TestDraftsAreKept(t *testing.T) {
//		kit.Each(t, func(t *testing.T, s *kit.Server) {
//			alice, bob := kit.Pair(t, s)
//			m := alice.Send(bob)
//			bob.Get("/messages/"+kit.Text(m, "id")).Want(200).Is("id", m["id"])
//			alice.Get("/messages/"+kit.Nobody).Refused(404, "not_found")
//		})
//	}
//
// # Servers
//
// A test says on which servers it runs. Those that many tests share are started once in each
// package of tests, and must exit in order at its end:
//
//   - [Each]: shared servers with one journal, with four, and three nodes behind a proxy.
//   - [OnOneNode]: the same without the three nodes; [Alone]: with no other test in parallel.
//   - [Own]: the test starts servers itself, by [Start], with one journal and with four.
//   - [StartNodes]: a cluster, of which nodes may be killed, halted or cut off.
//   - [RunAtFollower]: runs tests of the package again, at a node that does not lead.
//
// A [Server] can be killed, restarted, drained, and used by an operator's commands; [Command]
// and [Succeeds] run the binary itself.
//
// With -at.follower each server that a test starts is three nodes, and the test gets one that
// does not lead. A test that this does not suit calls [OneServerOnly], which skips it: it starts
// nodes or another program itself, works on the files of a stopped server, or judges the log,
// metrics or traces of one process.
//
// # Clients and answers
//
// [Server.Org] registers an organization, [Org.Agent] creates an agent with its keys, [Pair]
// gives two agents of two organizations. Their methods make requests and return an [Answer],
// which checks itself: [Answer.Want] and [Answer.Is] for what is expected, [Answer.Refused] and
// [Answer.Invalid] for errors, [Answer.Shaped] for all fields. [Agent.Stream] follows a stream.
// Every answer is noted: at the end [Main] compares the statuses, codes and headers of all
// answers with the OpenAPI document of the server.
//
// # Other packages of fixtures
//
//   - grouptest: groups and MLS groups; agents that use all commands of groups at once.
//   - hooktest: webhooks, and a sink with targets that receive deliveries.
//   - recorded: clients that load a server, and record its answers for package history.
//   - networktest: nodes in network namespaces whose links lose packets.
//
// What only one package of tests needs stays there. What two need comes here, with a comment.
package kit
