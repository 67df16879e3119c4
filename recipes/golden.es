¿Dónde está la estación?
Quisiera una taza de café.
Ella está leyendo un libro.
Mañana vamos a la playa.
¿Cuánto cuesta esto?
Mi hermana vive en Berlín.
Está lloviendo.
¿Puede ayudarme?
Los niños están jugando en el jardín.
Él compró un coche nuevo la semana pasada.
No sé qué decir.
Llevan dos horas esperando.
Cierra la ventana, por favor.
La sopa está demasiado caliente.
¿Qué hora es?
Nunca he estado en España.
El museo está cerrado los lunes.
Nuestro profesor es muy estricto.
Puedes quedarte con nosotros.
He perdido mis llaves.
El gato está durmiendo en el sofá.
¿Habla usted inglés?
Él trabaja en un hospital.
Estoy buscando un hotel.
La puerta estaba abierta.
Necesitamos más tiempo.
Este libro es interesante.
A ella no le gusta el pescado.
El tren sale a las 17:45.
Olvidé mi paraguas.
