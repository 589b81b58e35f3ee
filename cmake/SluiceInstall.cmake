# What `cmake --install` puts where: a tree that works from any prefix, for /usr as the Debian package has it and for a
# folder of one's own alike.

include(GNUInstallDirs)

set(programs sluice sluice-tokenizer sluice-embedding sluice-shard sluice-sampler sluice-orchestrator
    sluice-inspector)
if(SLUICE_GATEWAY)
  list(APPEND programs sluice-gateway sluice-gateway-demo)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Where the program looks for the model that comes with it: beside its own folder.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/storyteller
        DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/models)

# Clients in other languages are made from these.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/protos/sluice
        DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/protos FILES_MATCHING PATTERN "*.proto")

# The library for programs in C++, by itself: --component client.
set(client ${PROJECT_SOURCE_DIR}/clients/cpp)
install(TARGETS sluice_clients_cpp sluice_protos sluice_services_common_prefix_key sluice_services_routing
                sluice_services_routing_requests
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client)
install(FILES ${client}/client.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT client)
install(DIRECTORY ${PROJECT_BINARY_DIR}/protos/sluice/v1
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT client FILES_MATCHING PATTERN "*.pb.h")
# Both packages say where things are from where they are themselves.
file(RELATIVE_PATH to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
file(RELATIVE_PATH to_include /prefix/${CMAKE_INSTALL_LIBDIR} /prefix/${CMAKE_INSTALL_INCLUDEDIR})
configure_file(${client}/package/sluice-client.pc.in ${PROJECT_BINARY_DIR}/client/sluice-client.pc @ONLY)
configure_file(${client}/package/SluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/client/SluiceConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/client/sluice-client.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
install(FILES ${PROJECT_BINARY_DIR}/client/SluiceConfig.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice COMPONENT client)

set(package ${PROJECT_SOURCE_DIR}/deploy/package)
install(FILES ${package}/completions/sluice.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME sluice)
install(FILES ${package}/completions/_sluice DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${package}/completions/sluice.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# Units name the program by the prefix that is installed to, which is known then.
foreach(unit sluice.service sluice@.service)
  install(CODE "set(bin_folder \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})
configure_file(${package}/systemd/${unit}.in ${PROJECT_BINARY_DIR}/systemd/${unit} @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/systemd/${unit} DESTINATION lib/systemd/system)
endforeach()

install(FILES ${package}/systemd/gpu.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/systemd)

# Manual pages say what --help says, so they are made from it, by the programs just built.
set(man_pages ${PROJECT_BINARY_DIR}/man)
install(CODE "execute_process(
  COMMAND sh ${package}/man_pages.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${man_pages} ${PROJECT_VERSION}
  COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${man_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# `./dev package`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_CONTACT "The Sluice developers <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "serves language models as a pipeline of services over gRPC")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Sluice serves decoder language models as a pipeline of services (tokenizer, embedding, tensor-parallel shards,\
 sampler, orchestrator) that exchange protobuf streams over gRPC. The package has the programs, a small model to begin\
 with, systemd units, manual pages, completions, and the protos that clients are made from.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
# What programs in C++ are built with against the library that comes along.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libgrpc++-dev, libprotobuf-dev, pkg-config")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${package}/debian/postinst ${package}/debian/prerm ${package}/debian/postrm)
include(CPack)
