#include "handoff/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <vector>

namespace roost::handoff {
namespace {

struct Ends {
  Channel a;
  Channel b;
};

Ends make_ends() {
  auto made = Channel::make();
  EXPECT_TRUE(made);
  return {Channel(std::move(made->first)), Channel(std::move(made->second))};
}

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

UniqueFd some_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// A record with any bytes and any descriptors, as no Channel would send it.
void send_raw(int fd, const void* data, std::size_t size, const std::vector<int>& sockets) {
  iovec part{const_cast<void*>(data), size};
  std::vector<char> control(CMSG_SPACE(sockets.size() * sizeof(int)));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!sockets.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sockets.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), sockets.data(), sockets.size() * sizeof(int));
  }
  ASSERT_EQ(::sendmsg(fd, &header, 0), static_cast<ssize_t>(size));
}

int highest_descriptor() { return UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 0)).get(); }

TEST(Channel, ASocketTravelsBesideItsMessageAndIsCloseOnExec) {
  Ends ends = make_ends();
  const UniqueFd socket = some_socket();
  ASSERT_EQ(ends.a.send(Conn{7, 99, true, false}, socket.get()), SendStatus::sent);
  Received got = ends.b.receive();
  ASSERT_EQ(got.status, Received::Status::message);
  EXPECT_EQ(std::get<Conn>(*got.message), (Conn{7, 99, true, false}));
  ASSERT_TRUE(got.socket);
  EXPECT_TRUE(same_file(got.socket.get(), socket.get()));
  EXPECT_EQ(::fcntl(got.socket.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(ends.b.receive().status, Received::Status::empty);
}

TEST(Channel, MessagesGoBothWays) {
  Ends ends = make_ends();
  ASSERT_EQ(ends.a.send(DrainOrder{}), SendStatus::sent);
  ASSERT_EQ(ends.b.send(Ready{42}), SendStatus::sent);
  EXPECT_TRUE(std::holds_alternative<DrainOrder>(*ends.b.receive().message));
  EXPECT_EQ(std::get<Ready>(*ends.a.receive().message).pid, 42);
}

TEST(Channel, AConnWithoutItsSocketIsAMessageWithoutOne) {
  Ends ends = make_ends();
  ASSERT_EQ(ends.a.send(Conn{1, 2, false, false}), SendStatus::sent);
  const Received got = ends.b.receive();
  EXPECT_EQ(got.status, Received::Status::message);
  EXPECT_FALSE(got.socket);
  EXPECT_FALSE(got.socket_lost);
}

TEST(Channel, UnknownShortAndLongMessagesAreIgnoredAndTheirSocketsClosed) {
  Ends ends = make_ends();
  const UniqueFd socket = some_socket();
  const int before = highest_descriptor();
  MessageBytes unknown = encode(Ready{1});
  unknown[0] = std::byte{200};
  std::array<char, 500> garbage{};
  garbage.fill('x');
  send_raw(ends.a.fd(), unknown.data(), unknown.size(), {socket.get()});
  send_raw(ends.a.fd(), garbage.data(), 1, {});
  send_raw(ends.a.fd(), garbage.data(), garbage.size(), {socket.get()});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ends.b.receive().status, Received::Status::ignored) << i;
  EXPECT_EQ(highest_descriptor(), before);
  ASSERT_EQ(ends.a.send(Draining{}), SendStatus::sent);
  EXPECT_EQ(ends.b.receive().status, Received::Status::message) << "the channel works on";
}

TEST(Channel, MoreSocketsThanOneAreClosedAndTheMessageIgnored) {
  Ends ends = make_ends();
  const UniqueFd socket = some_socket();
  const int before = highest_descriptor();
  const MessageBytes bytes = encode(Conn{1, 2, false, false});
  send_raw(ends.a.fd(), bytes.data(), bytes.size(), {socket.get(), socket.get()});
  send_raw(ends.a.fd(), bytes.data(), bytes.size(), std::vector<int>(20, socket.get()));  // beyond the receiver's room
  EXPECT_EQ(ends.b.receive().status, Received::Status::ignored);
  EXPECT_EQ(ends.b.receive().status, Received::Status::ignored);
  EXPECT_EQ(highest_descriptor(), before);
}

TEST(Channel, AReceiverOutOfDescriptorsSeesThatTheSocketWasLost) {
  Ends ends = make_ends();
  const UniqueFd socket = some_socket();
  ASSERT_EQ(ends.a.send(Conn{1, 2, false, false}, socket.get()), SendStatus::sent);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(highest_descriptor());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Received got = ends.b.receive();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(got.status, Received::Status::message);
  EXPECT_FALSE(got.socket);
  EXPECT_TRUE(got.socket_lost);
}

TEST(Channel, AFullOneSaysSoAndGoesOnWhenItIsRead) {
  Ends ends = make_ends();
  const UniqueFd socket = some_socket();
  int sent = 0;
  while (ends.a.send(Conn{0, static_cast<std::uint64_t>(sent), false, false}, socket.get()) == SendStatus::sent) ++sent;
  EXPECT_EQ(ends.a.send(DrainOrder{}), SendStatus::full);
  ASSERT_GT(sent, 10);
  for (int i = 0; i < sent; ++i) {
    const Received got = ends.b.receive();
    ASSERT_EQ(got.status, Received::Status::message);
    EXPECT_EQ(std::get<Conn>(*got.message).ticket, static_cast<std::uint64_t>(i));
    EXPECT_TRUE(got.socket);
  }
  EXPECT_EQ(ends.a.send(DrainOrder{}), SendStatus::sent);
}

TEST(Channel, TheOthersEndIsSeenAfterItsLastMessage) {
  Ends ends = make_ends();
  ASSERT_EQ(ends.b.send(Draining{}), SendStatus::sent);
  ends.b.close();
  EXPECT_EQ(ends.a.receive().status, Received::Status::message);
  EXPECT_EQ(ends.a.receive().status, Received::Status::closed);
  EXPECT_EQ(ends.a.send(DrainOrder{}), SendStatus::closed);
}

TEST(Channel, OnlyASeqpacketSocketIsAdopted) {
  EXPECT_EQ(Channel::adopt(some_socket()).error().kind, ErrorKind::bad_config);
  EXPECT_FALSE(Channel::adopt(UniqueFd(::dup(0))));
  auto made = Channel::make();
  EXPECT_TRUE(Channel::adopt(std::move(made->first)));
}

}  // namespace
}  // namespace roost::handoff
