// The one file that compiles Asio and Beast (BOOST_ASIO_SEPARATE_COMPILATION); everything else includes declarations
// only.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
