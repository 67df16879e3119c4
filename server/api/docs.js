// A file of its own, so that the page's Content-Security-Policy allows no inline script.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  validatorUrl: null, // by default it would show the document to a service of its maker's
});
