// ClientWatch: notices that the client of a running handler has left. Internal to net/.
//
// It waits until the socket is readable and peeks: the end of the stream or an error means that the client is gone.
// Bytes mean a pipelined request; readability then says nothing any more, so the socket's hang-up flags are polled
// every 50 ms. No byte is consumed. Lives on one executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

namespace roost::net {

class ClientWatch {
 public:
  // `socket` must live until stop().
  ClientWatch(boost::asio::ip::tcp::socket& socket, const boost::asio::any_io_executor& executor,
              std::function<void()> on_gone);
  ~ClientWatch() { stop(); }
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

  // Cancels every pending operation of the socket, so no write may be under way.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace roost::net
